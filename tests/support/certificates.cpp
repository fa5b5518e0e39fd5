#include "support/certificates.h"

#include <lockstep/base/temporary_folder.h>
#include <lockstep/net/certificates/certificates.h>

namespace lockstep::test {

const std::string& certificates() {
  static const TemporaryFolder folder("lockstep-certificates");
  static const std::string config = [] {
    net::init_certificates(folder.path() / "certs", {"localhost"}, 30);
    return (folder.path() / "certs/localhost/config.json").string();
  }();
  return config;
}

}  // namespace lockstep::test
