// Command tiny is a plugin that is no agent: its function InitGltiAgent has another type.
package main

func InitGltiAgent(env any) {}

func main() {}
