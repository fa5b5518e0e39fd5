// Certificates for the ranks of a test.
#pragma once

#include <string>

namespace lockstep::test {

/// The configuration (LOCKSTEP_CLUSTER_CONFIG) of certificates for this machine, which 'lockstep certs init' would
/// make: made once in each process, and there as long as it lives.
const std::string& certificates();

}  // namespace lockstep::test
