// JSON text of values in a store: written compactly, read strictly.
#pragma once

#include <lockstep/base/error.h>
#include <lockstep/base/shown_text.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace lockstep::cluster::elastic {

/// Replaces bytes that are not UTF-8, since a rank may write any bytes to stderr.
inline std::string to_json_text(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// The result of `read` on the parsed text. Error(data), naming the expected `what`, when the text does not hold it.
template <typename Read>
auto from_json_text(std::string_view text, std::string_view what, Read read) {
  try {
    return read(nlohmann::json::parse(text));
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorKind::data, "rendezvous",
         "the store holds '{}' where {} should be ({}); give this job another --rdzv_id, and start the same version of "
         "lockstep on all nodes",
         cut_text(text), what, error.what());
  }
}

}  // namespace lockstep::cluster::elastic
