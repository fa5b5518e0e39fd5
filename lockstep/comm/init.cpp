#include <lockstep/comm/init.h>

namespace lockstep {

Group init(const InitMethod& method, const GroupOptions& options) { return connect(detect_world(method), options); }

}  // namespace lockstep
