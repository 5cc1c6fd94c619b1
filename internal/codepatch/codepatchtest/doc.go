// Package codepatchtest checks displacements of package codepatch in tests of
// that package and of packages that use it.
package codepatchtest
