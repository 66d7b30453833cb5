// Small figures of lines over two logarithmic axes, as SVG that asks nothing of the network and reads on light and
// dark.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace reprofuse::study {

struct PlotPoint {
  double x;
  double y;
};

struct PlotLine {
  std::string name;               // lines of one name look the same in every panel and share an entry of the legend
  std::vector<PlotPoint> points;  // in ascending x; all coordinates above 0
  bool is_floor = false;          // a bound, not a measurement: dashed and without marks
};

struct PlotPanel {
  std::string title;
  std::vector<PlotLine> lines;
};

struct Plot {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<PlotPanel> panels;  // each with axes of its own, two in a row
};

// Throws kInvalidArgument for a plot without a panel, a panel without a point, or a coordinate that has no logarithm.
std::string to_svg(const Plot& plot);

}  // namespace reprofuse::study
