// The result of the doctor's diagnosis.
#pragma once

#include <lockstep/doctor/facts.h>
#include <lockstep/doctor/finding.h>

#include <vector>

namespace lockstep::doctor {

struct Consultation {
  Job job;
  std::vector<Finding> findings;  ///< sorted by severity, errors first
  bool speaks = true;             ///< this rank should print the findings: it is rank 0, or it could not reach the
                                  ///< others
  bool sound = true;              ///< there are no errors; the same on all ranks that could connect
};

}  // namespace lockstep::doctor
