"""Derivatives by numbers: of the forward pass by differences, of the backward pass by VJPs."""
