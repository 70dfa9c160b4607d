"""Calls with DTensors: each rank runs the plain operator on its own part, between two maps that are exact transposes.

The engine is torch's: placements, collectives and meshes. DTensor gets no rule of ours; calls with DTensors come here.
"""
