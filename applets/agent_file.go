package applets

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

func (a agentCLI) newFile() *cobra.Command {
	return newGroup("file", "Exchange files with the conversation",
		a.newFileUpload(), a.newFilePublicURL(), a.newFileDownload())
}

// uploadResult is what upload and public-url print.
type uploadResult struct {
	TransferMethod string `json:"transfer_method"`
	Reference      string `json:"reference"`
	URL            string `json:"public_download_url,omitempty"`
}

func (a agentCLI) newFileUpload() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "upload PATH",
		Short: "Upload one local file as a ToolFile and print its reference",
		Args:  cobra.ExactArgs(1),
	}
	noLink := cmd.Flags().Bool("no-download-link", false, "stop after the upload, without a public link")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.fileUpload(cmd.Context(), args[0], !*noLink)
	}
	return cmd
}

func (a agentCLI) fileUpload(ctx context.Context, path string, link bool) error {
	client, err := a.client()
	if err != nil {
		return err
	}
	reference, err := client.UploadFile(ctx, path)
	if err != nil {
		return err
	}
	result := uploadResult{TransferMethod: "tool_file", Reference: reference}
	if !link {
		return a.printJSON(result)
	}
	result.URL, err = client.PublicURL(ctx, reference)
	if err != nil {
		// The file is there: its reference is worth more than the link.
		err = fmt.Errorf("%w; retry without uploading again: %s file public-url %s", err, agentName, shellQuote(reference))
	}
	return errors.Join(a.printJSON(result), err)
}

func (a agentCLI) newFilePublicURL() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "public-url REFERENCE",
		Short: "Get a browser link for a ToolFile that already exists",
		Args:  cobra.ExactArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return a.filePublicURL(cmd.Context(), args[0]) }
	return cmd
}

func (a agentCLI) filePublicURL(ctx context.Context, reference string) error {
	if reference == "" {
		return errors.New("file reference must not be empty")
	}
	client, err := a.client()
	if err != nil {
		return err
	}
	link, err := client.PublicURL(ctx, reference)
	if err != nil {
		return err
	}
	return a.printJSON(uploadResult{TransferMethod: "tool_file", Reference: reference, URL: link})
}

func (a agentCLI) newFileDownload() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "download TRANSFER_METHOD REFERENCE_OR_URL",
		Short: "Fetch one file mapping into a local directory",
		Args:  cobra.ExactArgs(2),
	}
	to := cmd.Flags().String("to", "", "directory to store the file in (default: the current directory)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.fileDownload(cmd.Context(), args[0], args[1], *to)
	}
	return cmd
}

func (a agentCLI) fileDownload(ctx context.Context, method, referenceOrURL, dir string) error {
	client, err := a.client()
	if err != nil {
		return err
	}
	if dir == "" {
		if dir, err = os.Getwd(); err != nil {
			return fmt.Errorf("find current directory: %w", err)
		}
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	path, err := client.DownloadFile(ctx, method, referenceOrURL, dir)
	if err != nil {
		return err
	}
	return a.printLine([]byte(path))
}

// shellQuote makes one word of s for sh.
func shellQuote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
