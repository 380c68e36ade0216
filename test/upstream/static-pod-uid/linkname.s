// The Go compiler accepts functions without a body only beside an assembly file.
