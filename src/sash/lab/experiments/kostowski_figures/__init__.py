"""Figures of Kostowski and Claypool."""
