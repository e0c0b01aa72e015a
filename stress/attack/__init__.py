"""Files that want to execute, escape or explode, by what they want."""
