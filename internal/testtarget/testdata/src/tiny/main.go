// Tiny speaks the protocol and does nothing else.
package main

func main() { serve(true, nil) }
