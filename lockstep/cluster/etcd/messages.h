// The JSON of etcd's HTTP gateway: requests, and the fields that are read from answers. Keys and values are base64,
// integers of 64 bits are text. All input is from a server: a field of another type is Error(io).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace lockstep::cluster::etcd {

/// Requests inside a transaction: find a key, write one that exists as long as the lease, delete one.
nlohmann::json find_in_txn(const std::string& key);
nlohmann::json put_in_txn(const std::string& key, const std::string& value, const std::string& lease);
nlohmann::json delete_in_txn(const std::string& key);

/// A transaction that executes all of `requests`, or, with a condition or an array of them, one of two lists of
/// requests.
nlohmann::json txn(const nlohmann::json& requests);
nlohmann::json txn(const nlohmann::json& condition, const nlohmann::json& then, const nlohmann::json& otherwise);

/// A transaction's condition that `key` is the one that was created at this revision; 0: that it does not exist.
nlohmann::json if_created_at(const std::string& key, std::int64_t revision);

/// A transaction's condition that the last write of `key` was at this revision; 0: that it does not exist.
nlohmann::json if_written_at(const std::string& key, std::int64_t revision);

/// The revision of the last write of an entry; 0 for null.
std::int64_t revision_of_entry(const nlohmann::json& entry);

/// The revision of the store after an answer's request.
std::int64_t revision_of(const nlohmann::json& answer);

/// Whether a transaction's conditions held.
bool succeeded(const nlohmann::json& answer);

/// The result of the `index`th request of a transaction, a range of one key: its entry, or null.
nlohmann::json entry_in_txn(const nlohmann::json& answer, std::size_t index);

/// The value in an entry; nullopt for null.
std::optional<std::string> value_of(const nlohmann::json& entry);

/// Whether the answer to a "keep alive" shows that the lease exists.
bool lease_is_alive(const nlohmann::json& answer);

}  // namespace lockstep::cluster::etcd
