"""Recipes that ship with holdfast, one YAML file each; `holdfast list recipes` shows them."""
