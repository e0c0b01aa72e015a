"""One file per table or figure of the papers: configuration and claims only."""
