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

}  // namespace lockstep::test
