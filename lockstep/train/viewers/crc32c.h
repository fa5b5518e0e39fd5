// CRC-32C, the checksum of TensorFlow's record files.
#pragma once

#include <boost/crc.hpp>

#include <cstdint>
#include <string_view>

namespace lockstep::train {

/// The Castagnoli CRC (RFC 3720, appendix B.4: polynomial 0x1EDC6F41, reflected, inverted at both ends): 0xE3069283 of
/// "123456789".
inline std::uint32_t crc32c(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

}  // namespace lockstep::train
