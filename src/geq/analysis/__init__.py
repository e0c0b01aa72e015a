"""What can be said about a model: theorems checked, bounds computed, behaviour measured."""
