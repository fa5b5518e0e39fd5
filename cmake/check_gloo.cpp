// Whether the Gloo inside a libtorch has its virtual functions where lockstep/compat/gloo_in_libtorch declares them.
// Usage: check_gloo LIBTORCH_CPU. Prints the first difference, with exit status 1.
#include <dlfcn.h>

#include <cstddef>
#include <cstdio>

namespace {

struct Place {
  const char* table;     // of the class that a program of ours gets from libtorch
  std::size_t number;    // among its virtual functions
  const char* function;  // that must be there
};

#define GLOO_TCP "_ZTVN4gloo9transport3tcp"
#define FUNCTION "_ZN4gloo9transport3tcp"
#define FUNCTION_CONST "_ZNK4gloo9transport3tcp"
constexpr Place kPlaces[] = {
    {GLOO_TCP "13UnboundBufferE", 2,
     FUNCTION "13UnboundBuffer8waitRecvEPiNSt6chrono8durationIlSt5ratioILl1ELl1000EEEE"},
    {GLOO_TCP "13UnboundBufferE", 3,
     FUNCTION "13UnboundBuffer8waitSendEPiNSt6chrono8durationIlSt5ratioILl1ELl1000EEEE"},
    {GLOO_TCP "13UnboundBufferE", 4, FUNCTION "13UnboundBuffer13abortWaitRecvEv"},
    {GLOO_TCP "13UnboundBufferE", 5, FUNCTION "13UnboundBuffer13abortWaitSendEv"},
    {GLOO_TCP "13UnboundBufferE", 6, FUNCTION "13UnboundBuffer4sendEimmm"},
    {GLOO_TCP "13UnboundBufferE", 7, FUNCTION "13UnboundBuffer4recvEimmm"},
    {GLOO_TCP "6DeviceE", 2, FUNCTION_CONST "6Device3strB5cxx11Ev"},
    {GLOO_TCP "6DeviceE", 3, FUNCTION_CONST "6Device11getPCIBusIDB5cxx11Ev"},
    {GLOO_TCP "6DeviceE", 4, FUNCTION_CONST "6Device17getInterfaceSpeedEv"},
    {GLOO_TCP "6DeviceE", 6, FUNCTION "6Device13createContextEii"},
    {GLOO_TCP "7ContextE", 2, FUNCTION "7Context7getPairEi"},
    {GLOO_TCP "7ContextE", 3, FUNCTION "7Context10createPairEi"},
    {GLOO_TCP "7ContextE", 4, FUNCTION "7Context24createAndConnectAllPairsESt10shared_ptrINS_6IStoreEE"},
    {GLOO_TCP "7ContextE", 5, FUNCTION "7Context19createUnboundBufferEPvm"},
};
// Not virtual, and called by name.
constexpr const char* kFunctions[] = {
    "_ZN4gloo7Context19createUnboundBufferEPvm",
    "_ZN4gloo7Context10setTimeoutENSt6chrono8durationIlSt5ratioILl1ELl1000EEEE",
};

}  // namespace

int main(int count, char** words) {
  void* libtorch = count == 2 ? dlopen(words[1], RTLD_LAZY | RTLD_LOCAL) : nullptr;
  if (libtorch == nullptr) return std::printf("cannot load it: %s\n", dlerror()), 1;
  for (const auto& place : kPlaces) {
    // A table begins with an offset and the type; then come the functions.
    const auto* table = static_cast<void* const*>(dlsym(libtorch, place.table));
    void* function = dlsym(libtorch, place.function);
    if (table == nullptr) return std::printf("it exports no %s\n", place.table), 1;
    if (function == nullptr) return std::printf("it exports no %s\n", place.function), 1;
    if (table[2 + place.number] != function) return std::printf("%s is at another place\n", place.function), 1;
  }
  for (const auto* name : kFunctions) {
    if (dlsym(libtorch, name) == nullptr) return std::printf("it exports no %s\n", name), 1;
  }
  return 0;
}
