// Messages for users about mistakes in JSON. nlohmann's own messages begin with "[json.exception.type_error.304]" and
// are meant for programmers.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace lockstep {

/// "it has no "mesh"", "it is not valid JSON (line 3, column 7)", "a value is a list where an object should be".
std::string json_mistake(const nlohmann::json::exception& error);

}  // namespace lockstep
