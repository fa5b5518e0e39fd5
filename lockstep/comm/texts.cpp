// Texts as tensors of bytes: their lengths are sent first, and texts are padded to the longest in a gather.
#include <lockstep/comm/collectives.h>
#include <lockstep/comm/texts.h>

#include <ATen/ATen.h>

#include <algorithm>

namespace lockstep {
namespace {

// Not memcpy, which forbids null pointers: an empty tensor has no address.
void put_into(const at::Tensor& bytes, const std::string& text) {
  std::ranges::copy(text, static_cast<char*>(bytes.data_ptr()));
}

std::string text_in(const at::Tensor& bytes, std::int64_t begin, std::int64_t length) {
  return {static_cast<const char*>(bytes.data_ptr()) + begin, static_cast<std::size_t>(length)};
}

}  // namespace

// The lengths are sent first, here and below, so that the receiver can allocate memory for the texts.
std::string share_text(const std::string& text, const Group& group, int root) {
  auto length = at::full({1}, static_cast<std::int64_t>(text.size()), at::kLong);
  broadcast(length, group, root);
  auto bytes = at::empty({length.item<std::int64_t>()}, at::kByte);
  if (group.rank() == root) put_into(bytes, text);
  broadcast(bytes, group, root);
  return text_in(bytes, 0, bytes.numel());
}

std::vector<std::string> gather_texts(const std::string& own, const Group& group) {
  const auto lengths = all_gather(at::full({1}, static_cast<std::int64_t>(own.size()), at::kLong), group);
  const auto longest = lengths.max().item<std::int64_t>();
  auto padded = at::zeros({longest}, at::kByte);
  put_into(padded, own);
  const auto all = all_gather(padded, group);
  std::vector<std::string> texts;
  for (int rank = 0; rank < group.size(); ++rank) {
    texts.push_back(text_in(all, rank * longest, lengths[rank].item<std::int64_t>()));
  }
  return texts;
}

}  // namespace lockstep
