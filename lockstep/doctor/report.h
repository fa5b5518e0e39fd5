// The doctor's reports: for users, for logs, and as JSON.
#pragma once

#include <lockstep/doctor/checks.h>

#include <string>

namespace lockstep::doctor {

/// A summary for users: the examined ranks, the important findings, the verdict. Ends with a newline.
std::string print(const Examination& examination);

/// The errors and warnings, or a line that there are none: for logs. Ends without a newline.
std::string print_findings(const Examination& examination);

/// One JSON object in one line: verdict, findings and all facts. Ends with a newline.
std::string print_json(const Examination& examination);

}  // namespace lockstep::doctor
