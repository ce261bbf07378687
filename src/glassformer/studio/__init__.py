"""Studio: a local web page that shows how a model computes a prediction, learns a step and translates a sentence."""
