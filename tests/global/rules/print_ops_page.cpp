// Prints the last part of docs/global.md.
#include <lockstep/global/rules/signature.h>

#include <cstdio>

int main() { return std::fputs(lockstep::global::ops_page().c_str(), stdout) < 0 ? 1 : 0; }
