"""Is what evenhand says true? An independent judge with pandas and bare models, on real, messy and wrong set-ups."""
