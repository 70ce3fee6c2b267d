"""What attackers want: one small file per goal or family of goals."""
