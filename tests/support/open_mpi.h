// What Open MPI's launcher must be told in a test.
#pragma once

#include <lockstep/base/environment.h>

namespace lockstep::test {

/// This process's, for an mpirun that else refuses to run as root or with more ranks than cores.
inline Environment environment_for_mpirun() {
  auto environment = current_environment();
  environment.insert({{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                      {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                      {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
                      {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"}});  // since Open MPI 5
  return environment;
}

}  // namespace lockstep::test
