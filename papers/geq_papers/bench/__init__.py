"""Speed and memory against peers, as ratios measured in one run; ``geq bench`` is the command."""
