#include "funcdata.h"
#include "textflag.h"

// func Through()
TEXT ·Through(SB), 0, $8-0
	NO_LOCAL_POINTERS
	CALL ·Rest(SB)
	RET
