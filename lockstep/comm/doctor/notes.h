// The messages between the doctors of all ranks: JSON under keys of the job's store.
#pragma once

#include <lockstep/comm/stores.h>
#include <lockstep/doctor/wait_limit.h>

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::doctor {

/// Exceptions are those of the store.
class Notes {
 public:
  /// `corner` is a prefix of their keys. The store must answer within its own time limit.
  Notes(detail::StorePtr store, std::string corner);

  void put(std::string_view what, int rank, const nlohmann::json& value);
  /// Waits for the value; nullopt when `wait_limit` has run out.
  std::optional<nlohmann::json> take(std::string_view what, int rank, const WaitLimit& wait_limit);

 private:
  std::string key(std::string_view what, int rank) const;

  detail::StorePtr store_;
  std::string corner_;
};

}  // namespace lockstep::doctor
