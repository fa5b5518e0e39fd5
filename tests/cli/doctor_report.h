// What `lockstep doctor` said.
#pragma once

#include "cli/program.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lockstep::test {

inline constexpr ExitStatus kUnsound{1, 0};
inline constexpr const char* kDoctor = "lockstep doctor: rank 0 of ";

/// What is wrong, as "error links"; in the order of the report.
inline std::vector<std::string> findings_in(const std::string& json) {
  std::vector<std::string> found;
  const auto report = nlohmann::json::parse(json);
  for (const auto& one : report.at("findings")) {
    if (one["severity"] != "note") {
      found.push_back(one["severity"].get<std::string>() + " " + one["check"].get<std::string>());
    }
  }
  return found;
}

/// The fix of the first finding of that check, on one line, in a report for people.
inline std::string fix_of(const std::string& check, const std::string& report) {
  const auto finding = report.find("ERROR  " + check + "  ");
  const auto begin = report.find("fix: ", finding);
  if (finding == std::string::npos || begin == std::string::npos) return "there is none: " + report;
  std::string text;
  for (const char one : report.substr(begin, report.find("\n\n", begin) - begin)) {
    const bool blank = one == ' ' || one == '\n';
    if (!blank || !text.ends_with(' ')) text += blank ? ' ' : one;
  }
  return text;
}

}  // namespace lockstep::test
