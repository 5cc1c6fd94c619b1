// This file makes the compiler accept functions without a body in the package's Go files.
