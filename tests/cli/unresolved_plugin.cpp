// A plugin that uses a function which is in no library.
#include <lockstep/lockstep.h>
#include <lockstep/train/plugin.h>

namespace lockstep_test {
void function_of_nobody(int number);
}

void lockstep_plugin(lockstep::train::Parts&) { lockstep_test::function_of_nobody(1); }
