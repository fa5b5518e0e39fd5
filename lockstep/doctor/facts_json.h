// Facts as JSON, for the messages between ranks and for `--json`.
#pragma once

#include <lockstep/doctor/facts.h>
#include <lockstep/doctor/finding.h>

#include <nlohmann/json_fwd.hpp>

namespace lockstep::doctor {

// Customization points of nlohmann::json, found by argument-dependent lookup. Missing keys throw its exceptions.
void to_json(nlohmann::json& json, const Facts& facts);
void from_json(const nlohmann::json& json, Facts& facts);
void to_json(nlohmann::json& json, const Link& link);
void from_json(const nlohmann::json& json, Link& link);
void to_json(nlohmann::json& json, const NameSeen& seen);
void from_json(const nlohmann::json& json, NameSeen& seen);
void to_json(nlohmann::json& json, const Finding& finding);

}  // namespace lockstep::doctor
