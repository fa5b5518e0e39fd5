// Makes the linker keep the library.
extern "C" const int lockstep_test_at_load;

const int* needs_at_load() { return &lockstep_test_at_load; }
