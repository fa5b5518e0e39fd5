// The doctor's reports: for people, for logs, and as JSON.
#pragma once

#include <lockstep/doctor/consultation.h>

#include <string>

namespace lockstep::doctor {

/// One screen for people: who was examined, the findings that matter, the verdict. Ends with a newline.
std::string print(const Consultation& consultation);

/// Errors and warnings only, or that there are none: for logs. Ends without a newline.
std::string print_findings(const Consultation& consultation);

/// One JSON object in one line: verdict, findings and all facts. Ends with a newline.
std::string print_json(const Consultation& consultation);

}  // namespace lockstep::doctor
