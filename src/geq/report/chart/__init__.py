"""Pictures as inline SVG: colours come from the style sheet, so one picture serves light, dark and paper."""
