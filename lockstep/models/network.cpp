// The check of a batch's shape that all picture classifiers share.
#include <lockstep/models/network.h>

#include <lockstep/base/error.h>

#include <fmt/ranges.h>

namespace lockstep::models {

void require_pictures(const torch::Tensor& pictures, std::int64_t channels, std::string_view model) {
  if (pictures.dim() == 4 && pictures.size(1) == channels) return;
  fail(
      ErrorKind::invalid_argument, "models",
      "{} was built for pictures of {} channels, [N, {}, height, width]; this batch has shape [{}]; change the data or "
      "the model's in_channels",
      model, channels, channels, fmt::join(pictures.sizes(), ", "));
}

}  // namespace lockstep::models
