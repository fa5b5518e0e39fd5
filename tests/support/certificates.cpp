#include "support/certificates.h"

#include <lockstep/base/temporary_folder.h>
#include <lockstep/scheduler/security/make_certificates.h>

namespace lockstep::test {

const std::string& certificates() {
  static const TemporaryFolder folder("lockstep-certificates");
  static const std::string config = [] {
    scheduler::init_certificates(folder.path() / "certs", {"localhost"}, 30);
    return (folder.path() / "certs/localhost/config.json").string();
  }();
  return config;
}

}  // namespace lockstep::test
