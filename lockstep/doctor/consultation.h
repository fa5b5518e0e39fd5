// The result of the doctor's diagnosis.
#pragma once

#include <lockstep/doctor/facts.h>
#include <lockstep/doctor/finding.h>

#include <vector>

namespace lockstep::doctor {

struct Consultation {
  Job job;
  std::vector<Finding> findings;  ///< the worst first
  bool speaks = true;             ///< this rank should print them: it is rank 0, or could not reach the others
  bool sound = true;              ///< no finding will break a job; the same on all ranks that met
};

}  // namespace lockstep::doctor
