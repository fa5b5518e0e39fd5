// Proofs of a secret that two sides share, and random tokens.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

/// 32 random hexadecimal digits that cannot be guessed. Error(io) when the system has no random bytes.
std::string random_token();

/// The proof that the sender has the secret: HMAC-SHA-256 over the sender and the nonce that the other side chose.
/// `who` is the sender's role, e.g. "scheduler", so that a proof cannot be replayed to its sender (reflection attack).
std::string prove(std::string_view secret, std::string_view who, std::string_view nonce);

/// Whether `proof` is correct; compares in constant time.
bool is_proof(std::string_view proof, std::string_view secret, std::string_view who, std::string_view nonce);

}  // namespace lockstep
