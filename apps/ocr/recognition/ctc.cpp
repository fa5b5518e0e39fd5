// CTC over libtorch's ctc_loss, and greedy decoding: the best class of each column, repeats and blanks left out.
#include <apps/ocr/recognition/ctc.h>

#include <apps/ocr/recognition/characters.h>

#include <torch/torch.h>

#include <tuple>

namespace lockstep::ocr {

std::int64_t blank_class(const Dictionary& dictionary, BlankPlace place) {
  return place == BlankPlace::first ? 0 : dictionary.size();
}

std::int64_t first_class(BlankPlace place) { return place == BlankPlace::first ? 1 : 0; }

void CtcTargets::add(const std::vector<std::int64_t>& numbers, BlankPlace place) {
  for (const auto number : numbers) classes.push_back(number + first_class(place));
  lengths.push_back(static_cast<std::int64_t>(numbers.size()));
}

std::int64_t columns_needed(const std::vector<std::int64_t>& numbers) {
  auto columns = static_cast<std::int64_t>(numbers.size());
  for (std::size_t i = 1; i < numbers.size(); ++i) columns += numbers[i] == numbers[i - 1] ? 1 : 0;
  return columns;
}

at::Tensor ctc_losses(const at::Tensor& logits, const CtcTargets& targets, std::int64_t blank, bool zero_infinity) {
  const auto columns = logits.size(0), words = logits.size(1);
  const auto log_p = torch::log_softmax(logits, 2, torch::kFloat);
  const auto classes = torch::tensor(targets.classes, torch::kLong).to(logits.device());
  const std::vector<std::int64_t> all_columns(static_cast<std::size_t>(words), columns);
  return torch::ctc_loss(log_p, classes, all_columns, targets.lengths, blank, at::Reduction::None, zero_infinity);
}

std::vector<ReadWord> read_greedily(const at::Tensor& logits, const Dictionary& dictionary, BlankPlace place) {
  const auto probabilities = torch::softmax(logits.detach(), 2, torch::kFloat);
  const auto [best, classes] = probabilities.max(2);
  const auto p = best.t().to(torch::kCPU).contiguous();
  const auto c = classes.t().to(torch::kCPU).contiguous();
  const auto columns = p.size(1);
  const auto blank = blank_class(dictionary, place), first = first_class(place);
  std::vector<ReadWord> words;
  for (std::int64_t n = 0; n < p.size(0); ++n) {
    const auto* of_p = p.data_ptr<float>() + n * columns;
    const auto* of_c = c.data_ptr<std::int64_t>() + n * columns;
    std::u32string text;
    double sum = 0;
    for (std::int64_t t = 0; t < columns; ++t) {
      if (of_c[t] == blank || (t > 0 && of_c[t] == of_c[t - 1])) continue;
      text += dictionary.character(of_c[t] - first);
      sum += of_p[t];
    }
    const double confidence = text.empty() ? 0 : sum / static_cast<double>(text.size());
    words.push_back({to_utf8(text), confidence});
  }
  return words;
}

}  // namespace lockstep::ocr
