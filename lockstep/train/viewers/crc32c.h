// CRC-32C, the checksum of TensorFlow's record files.
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep::train {

/// The Castagnoli CRC (RFC 3720, appendix B.4: polynomial 0x1EDC6F41, reflected, inverted at both ends): 0xE3069283 of
/// "123456789".
std::uint32_t crc32c(std::string_view bytes);

}  // namespace lockstep::train
