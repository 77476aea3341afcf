"""What is given, held against what it must be: to public functions, and by parts of one's own."""
