#include <lockstep/comm/group.h>

namespace lockstep {

Group init(const InitMethod& method, const GroupOptions& options) { return connect(detect_world(method), options); }

}  // namespace lockstep
