"""Speed and memory, beside a textbook implementation and the machine's limit."""
