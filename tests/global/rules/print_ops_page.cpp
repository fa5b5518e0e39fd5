// Prints docs/global_ops.md.
#include <lockstep/global/rules/ops_page.h>

#include <cstdio>

int main() { return std::fputs(lockstep::global::ops_page().c_str(), stdout) < 0 ? 1 : 0; }
