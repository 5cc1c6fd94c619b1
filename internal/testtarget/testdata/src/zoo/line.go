package main

// lineDirective is said to come from another file, as generated code is.
func lineDirective() {
//line grammar.y:100
	<-never
}
