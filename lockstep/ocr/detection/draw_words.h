// Pictures with the words that were found in them, for people.
#pragma once

#include <lockstep/ocr/detection/find_boxes.h>
#include <lockstep/train/reports.h>

#include <string>
#include <vector>

namespace lockstep::ocr {

/// A picture file in RGB, uint8, turned as EXIF says. Error(data) naming the file.
cv::Mat read_rgb(const std::string& file);

/// The same with the outlines of words: green ones that were found, red ones that are there, where given.
cv::Mat drawn_words(const std::string& file, const std::vector<Polygon>& found, const std::vector<Polygon>& truth = {});

/// Writes text beside a word's upper left corner, as far as it is ASCII; other characters become `?`.
void write_beside(cv::Mat& picture, const Polygon& word, const std::string& text);

/// Pictures in rows, each scaled to fit into a cell of that width, in three columns.
train::ShownPicture contact_sheet(const std::vector<cv::Mat>& pictures, int cell_width);

/// The bytes of a PNG file.
std::string png_of(const cv::Mat& picture);

}  // namespace lockstep::ocr
