package uprobe

// trialPlace is the instruction of hit that has the probe.
var trialPlace = []byte{0xeb, 0x00}
