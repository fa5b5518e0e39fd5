// Words of a picture as tensors of a sample, and pictures as OpenCV matrices.
#pragma once

#include <apps/ocr/detection/targets.h>
#include <lockstep/samples/dataset.h>

#include <ATen/core/Tensor.h>

#include <optional>

namespace lockstep::ocr {

/// Fields of a sample. Where words have different numbers of corners, the last one is repeated.
inline constexpr const char* kPolygons = "polygons";  ///< float64 [words, corners, 2], in the current picture
inline constexpr const char* kIgnored = "ignored";    ///< bool [words]
inline constexpr const char* kTruth = "truth";        ///< float64 [words, corners, 2], in the picture of the file
inline constexpr const char* kTruthIgnored = "truth_ignored";  ///< bool [words]
inline constexpr const char* kFrame = "frame";  ///< float64 [4]: height and width of the file's picture, and by what
                                                ///< factors they were multiplied
inline constexpr const char *kTextMap = "text_map", *kTextMask = "text_mask";                      ///< uint8 [H, W]
inline constexpr const char *kThresholdMap = "threshold_map", *kThresholdMask = "threshold_mask";  ///< float, uint8

at::Tensor polygons_of(const Words& words);
at::Tensor ignored_of(const Words& words);

/// The words from such tensors, on the CPU.
Words words_of(const at::Tensor& polygons, const at::Tensor& ignored);

/// The words of a sample with labels; nullopt without labels (pictures for predictions).
std::optional<Words> words_of(const samples::Sample& sample);
void set_words(samples::Sample& sample, const Words& words);

/// Shares the memory of a tensor [H, W] or [H, W, channels], uint8 or float, which must be contiguous and outlive it.
cv::Mat to_mat(const at::Tensor& picture);

/// A tensor that owns the memory of the matrix.
at::Tensor to_tensor(const cv::Mat& picture);

}  // namespace lockstep::ocr
